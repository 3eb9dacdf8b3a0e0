"""A small writer of SVG charts, on a light ground of their own, so that they can be read on a dark page, too."""

from html import escape


class Axes:
    """Whole numbers to the right, 0 to `most` upwards."""

    def __init__(self, picture, left, top, width, height, numbers, most):
        self.picture, self.left, self.top, self.width, self.height = picture, left, top, width, height
        self.numbers, self.most = numbers, most

    def at(self, x, y):
        """Pixels."""
        across = (x - self.numbers[0] + 0.5) / len(self.numbers)
        return self.left + across * self.width, self.top + self.height * (1 - y / self.most)

    def line(self, points, color, dashed=False):
        pixels = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(*point) for point in points))
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.picture.add(f'<polyline points="{pixels}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>')

    def point(self, x, y, color):
        across, down = self.at(x, y)
        self.picture.add(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3.5" fill="{color}"/>')

    def note(self, x, y, text):
        """Below the point, to its right."""
        across, down = self.at(x, y)
        self.picture.text(across + 6, down + 16, text)


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.body = width, height, title, []

    def add(self, element):
        self.body.append(element)

    def text(self, x, y, text, anchor="start", bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>')

    def axes(self, left, top, width, height, numbers, most, title):
        """With round marks for 0 to about `most`."""
        step = next(step for step in (f * 10**e for e in range(-3, 9) for f in (1, 2, 5)) if most / step <= 6)
        marks = [i * step for i in range(int(most / step) + 2) if i * step < most + step]
        axes = Axes(self, left, top, width, height, numbers, marks[-1])
        for mark in marks:
            _, y = axes.at(numbers[0], mark)
            self.add(f'<path d="M{left} {y:.1f}h{width}" stroke="#e1e4e0"/>')
            self.text(left - 6, y + 4, f"{mark:g}", "end")
        for number in numbers:
            x, _ = axes.at(number, 0)
            self.text(x, top + height + 16, f"{number}", "middle")
        self.text(left, top - 8, title)
        return axes

    def document(self):
        size = f'width="{self.width}" height="{self.height}"'
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" fill="#1f2933" role="img">',
            f"<title>{escape(self.title)}</title>",
            f'<rect {size} fill="#fbfbf8"/>',
            *self.body,
            "</svg>",
            "",
        ])
