import multiprocessing


def count_in_processes(addresses, processes=2):
    results = multiprocessing.get_context("spawn").Queue()

    def look_up(address):
        results.put(len(address))

    workers = [
        multiprocessing.get_context("spawn").Process(target=look_up, args=(address,))
        for address in addresses[:processes]
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [results.get() for _ in workers]
