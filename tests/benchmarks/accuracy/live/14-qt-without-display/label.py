from PyQt5.QtWidgets import QLabel


class WordLabel(QLabel):
    def __init__(self, word):
        super().__init__()
        self.setText(word.upper())
