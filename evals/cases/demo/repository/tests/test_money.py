import unittest

from shop.money import to_cents


class ToCents(unittest.TestCase):
    def test_whole(self):
        self.assertEqual(to_cents("4"), 400)

    def test_half(self):
        self.assertEqual(to_cents("2.50"), 250)

    def test_no_cent_is_lost(self):
        self.assertEqual(to_cents("4.35"), 435)
        self.assertEqual(to_cents("19.99"), 1999)
