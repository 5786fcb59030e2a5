def median(numbers):
    return sorted(numbers)[len(numbers) // 2]
