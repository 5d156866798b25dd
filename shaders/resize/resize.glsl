// Where a position of the resized image lies in the source. Needs resize_push.h before it.
#ifndef GRAFT_RESIZE_GLSL
#define GRAFT_RESIZE_GLSL

int floor_div(int x, int y) {  // y > 0
  const int q = x / y;
  return q * y > x ? q - 1 : q;
}

// The two elements of the source axis that make up position o, and the share of the second.
struct Taps {
  int first;
  int second;
  float share;
};

Taps taps(uint axis, int o) {
  const int last = p.in_size[axis] - 1;
  const int c = p.c[axis];
  const int x = p.a[axis] * o + p.b[axis];
  if (p.linear == 0u) {
    int i;
    if (p.rounding == 0u) {
      i = -floor_div(c - 2 * x, 2 * c);
    } else if (p.rounding == 1u) {
      i = floor_div(x, c);
    } else if (p.rounding == 2u) {
      i = -floor_div(-x, c);
    } else {
      i = floor_div(2 * x + c, 2 * c);
    }
    i = clamp(i, 0, last);
    return Taps(i, i, 0.0);
  }
  const int i = floor_div(x, c);
  return Taps(clamp(i, 0, last), clamp(i + 1, 0, last), float(x - i * c) / float(c));
}

// How much of source element i position o takes.
float weight(uint axis, int o, int i) {
  const Taps t = taps(axis, o);
  return (t.first == i ? 1.0 - t.share : 0.0) + (t.second == i ? t.share : 0.0);
}

// Positions that may take something of source element i: those that lie within one element of it.
ivec2 takers(uint axis, int i) {
  const int last = p.out_size[axis] - 1;
  const int a = p.a[axis];
  if (a == 0) return ivec2(0, last);
  const int from = i == 0 ? 0 : floor_div((i - 1) * p.c[axis] - p.b[axis], a);
  const int to = i == p.in_size[axis] - 1 ? last : floor_div((i + 1) * p.c[axis] - p.b[axis], a) + 1;
  return ivec2(max(from, 0), min(to, last));
}

#endif
