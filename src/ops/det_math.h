#ifndef HOLDFAST_OPS_DET_MATH_H_
#define HOLDFAST_OPS_DET_MATH_H_

// Functions of doubles that give the same bits on every machine: only +, -, *, /, fma and bit
// operations, unlike the C library's, whose last bits change between versions. Within 2 ulp over
// the ranges stated.

namespace holdfast {

double DetExp(double x);  // |x| <= 700
double DetLog(double x);  // x finite, > 0 and normal
// |x| <= 2^30 (about 1e9 radians).
void DetSinCos(double x, double* sin, double* cos);
// ln(1 + e^x); x itself above 20 (spec: qwen4exp, 4.3).
float DetSoftplus(float x);

}  // namespace holdfast

#endif  // HOLDFAST_OPS_DET_MATH_H_
