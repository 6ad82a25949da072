// Classes without virtual functions: a base with a policy by CRTP, an inherited accumulator, operator
// overloads, a nested namespace, static members, and a variadic fold.
namespace shapes {
template <class Derived>
class Shape {
 public:
  __device__ double area() const { return self().area_of(); }
  __device__ double ratio() const { return self().area_of() / (self().perimeter() * self().perimeter()); }

 private:
  __device__ const Derived& self() const { return static_cast<const Derived&>(*this); }
};

class Rectangle : public Shape<Rectangle> {
 public:
  __device__ Rectangle(double w, double h) : w_(w), h_(h) {}
  __device__ double area_of() const { return w_ * h_; }
  __device__ double perimeter() const { return 2 * (w_ + h_); }

 protected:
  double w_, h_;
};

class Square : public Rectangle {
 public:
  __device__ explicit Square(double a) : Rectangle(a, a) {}
  __device__ double diagonal() const { return w_ * sqrt(2.0); }
};

class Ellipse : public Shape<Ellipse> {
 public:
  __device__ Ellipse(double a, double b) : a_(a), b_(b) {}
  __device__ double area_of() const { return pi * a_ * b_; }
  __device__ double perimeter() const {  // Ramanujan
    const double h = (a_ - b_) * (a_ - b_) / ((a_ + b_) * (a_ + b_));
    return pi * (a_ + b_) * (1 + 3 * h / (10 + sqrt(4 - 3 * h)));
  }

 private:
  static constexpr double pi = 3.14159265358979323846;
  double a_, b_;
};
}  // namespace shapes

template <class... T>
__device__ double total(T... shapes) {
  return (shapes.area() + ... + 0.0);
}

extern "C" __global__ void k(const double2* size, double* areas, double* ratios, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double2 s = size[i];
  const shapes::Rectangle r(s.x, s.y);
  const shapes::Square q(s.x);
  const shapes::Ellipse e(s.x, s.y);
  areas[i] = total(r, q, e) + q.diagonal();
  ratios[i] = i % 3 == 0 ? r.ratio() : i % 3 == 1 ? q.ratio() : e.ratio();
}
