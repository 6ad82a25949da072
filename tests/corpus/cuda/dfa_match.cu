// A regular expression as an automaton, -?[0-9]+(\.[0-9]+)?(e-?[0-9]+)? on fixed-width records, by a
// transition table in constant memory and by a switch; both must agree with the host.
enum State : int { START, SIGN, WHOLE, POINT, FRACTION, E, ESIGN, EXPONENT, DEAD };

__constant__ signed char table[9][4] = {
    // digit  minus  point  e
    {WHOLE, SIGN, DEAD, DEAD},        {WHOLE, DEAD, DEAD, DEAD},  {WHOLE, DEAD, POINT, E},
    {FRACTION, DEAD, DEAD, DEAD},     {FRACTION, DEAD, DEAD, E},  {EXPONENT, ESIGN, DEAD, DEAD},
    {EXPONENT, DEAD, DEAD, DEAD},     {EXPONENT, DEAD, DEAD, DEAD}, {DEAD, DEAD, DEAD, DEAD}};

__device__ int by_switch(int state, char c) {
  const bool digit = c >= '0' && c <= '9';
  switch (state) {
    case START: return digit ? WHOLE : c == '-' ? SIGN : DEAD;
    case SIGN: return digit ? WHOLE : DEAD;
    case WHOLE: return digit ? WHOLE : c == '.' ? POINT : c == 'e' ? E : DEAD;
    case POINT: return digit ? FRACTION : DEAD;
    case FRACTION: return digit ? FRACTION : c == 'e' ? E : DEAD;
    case E: return digit ? EXPONENT : c == '-' ? ESIGN : DEAD;
    case ESIGN:
    case EXPONENT: return digit ? EXPONENT : DEAD;
    default: return DEAD;
  }
}

extern "C" __global__ void k(const char* records, int width, int n, int* ends) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int a = START, b = START, at = 0;
  for (; at < width; ++at) {
    const char c = records[i * width + at];
    if (c == ' ') break;
    const int kind = c >= '0' && c <= '9' ? 0 : c == '-' ? 1 : c == '.' ? 2 : c == 'e' ? 3 : 4;
    a = kind < 4 ? table[a][kind] : DEAD;
    b = by_switch(b, c);
  }
  ends[i] = a == b ? (a == WHOLE || a == FRACTION || a == EXPONENT ? at : -a) : -99;
}
