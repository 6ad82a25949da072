// Generic transforms with lambdas and function objects: map, zip, filter and fold over a small array a
// thread, captured by value and by reference, a compile-time chosen functor by name expression.
template <class T, int N>
struct Small {
  T item[N];
  int size = 0;

  __device__ void push(T v) { item[size++] = v; }

  template <class F>
  __device__ void map(F f, Small<T, N>& out) const {
    for (int i = 0; i < size; ++i) out.push(f(item[i]));
  }

  template <class F>
  __device__ void filter(F f, Small<T, N>& out) const {
    for (int i = 0; i < size; ++i)
      if (f(item[i])) out.push(item[i]);
  }

  template <class A, class F>
  __device__ A fold(A start, F f) const {
    for (int i = 0; i < size; ++i) start = f(start, item[i]);
    return start;
  }
};

struct Larger {
  __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

struct Sum {
  __device__ int operator()(int a, int b) const { return a + b; }
};

template <class Op, int Start>
__global__ void fold(const int* in, int* out, int* kept, int each) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  Small<int, 16> list, chosen, mapped;
  for (int i = 0; i < each; ++i) list.push(in[t * each + i]);
  int calls = 0;
  const int low = t % 7;
  auto test = [&calls, low](int v) {
    ++calls;
    return v % 7 >= low;
  };
  list.filter(test, chosen);
  chosen.map([=](int v) { return v * 3 - t; }, mapped);
  out[t] = mapped.fold(Start, Op());
  kept[t] = chosen.size * 100 + calls;
}
