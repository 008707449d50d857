"""What the shop relies on."""

from __future__ import annotations

import unittest

from prices import total
from stock import OutOfStock, Stock


class ShopTest(unittest.TestCase):
    """Two modules, one of which does what it says."""

    def test_what_is_added_is_added(self) -> None:
        """Twice two are four."""
        stock = Stock()
        stock.add("lamp", 2)
        stock.add("lamp", 2)
        self.assertEqual(stock.take("lamp", 1), 3)

    def test_too_many_are_not_taken(self) -> None:
        """Who asks for too much changes nothing."""
        stock = Stock()
        stock.add("lamp", 2)
        with self.assertRaises(OutOfStock):
            stock.take("lamp", 3)
        self.assertEqual(stock.take("lamp", 2), 0)

    def test_what_was_never_there_is_out_of_stock(self) -> None:
        """No KeyError."""
        with self.assertRaises(OutOfStock):
            Stock().take("moon", 1)

    def test_totals_are_rounded_down(self) -> None:
        """Half a cent is the customer's."""
        self.assertEqual(total([999, 1], 50), 500)
        self.assertEqual(total([333], 10), 299)


if __name__ == "__main__":
    unittest.main()
