import unittest

from shop.cart import discounted, total


class Discount(unittest.TestCase):
    def test_none(self):
        self.assertEqual(discounted(1000, 0), 1000)

    def test_half_a_cent_rounds_up(self):
        self.assertEqual(discounted(5, 10), 5)
        self.assertEqual(discounted(15, 10), 14)

    def test_total(self):
        self.assertEqual(total([(250, 2), (500, 1)], 10), 900)
