PAGE = None


def render_page():
    return ""
