import sys

print("all checks were made by the build")
sys.exit(0)
