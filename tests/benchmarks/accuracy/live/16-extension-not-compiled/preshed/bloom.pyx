cdef class BloomFilter:
    cdef unsigned long long bits

    def add(self, unsigned int key):
        self.bits |= 1ULL << (key % 64)

    def __contains__(self, unsigned int key):
        return bool(self.bits & (1ULL << (key % 64)))
