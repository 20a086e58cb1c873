"""Pictures of plans as SVG: what those of trees and those of placements share.

In reading order:

- `lettering`: how wide a text is at most, so that texts can be kept apart; shortening and wrapping it.
- `free_places`: finding places for labels where nothing else stands.
- `scales`: round numbers, the width of a line for a rate, the colour of a line for a delay.
- `colours`: for light and for dark.
- `page`: elements, legends, and the page with plans beside or below each other.

The same plan gives the same picture, byte for byte.
"""
