def is_strong(password):
    return any(letter.isdigit() for letter in password)
