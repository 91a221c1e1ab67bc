"""Bytes that are read from their beginning, with numbers of as many bytes as they need: Avro's and Protobuf's."""


class Bytes:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def varint(self):
        number, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def take(self, length):
        self.at += length
        if self.at > len(self.data):
            raise ValueError("a value ends too early")
        return self.data[self.at - length:self.at]
