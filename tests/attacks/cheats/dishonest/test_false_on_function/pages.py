def count_pages(items, per_page):
    return items // per_page
