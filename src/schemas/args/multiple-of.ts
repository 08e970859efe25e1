/** `multipleOf` for numbers as they are written, not as doubles divide. */
import { type FuncKeywordDefinition, str } from 'ajv/dist/2020.js'
import type { CostBudget } from './cost-budget.ts'

/** Up to this value, 15 digits distinguish a double from its neighbours. */
const MAX_EXACT = 1e15
/** With more decimals, even 1 times the power of ten would exceed `MAX_EXACT`. */
const MAX_DECIMALS = 15
/** Steps (see `COST`) of a computation with big integers, at most. */
const LONG_WAY = 400

/**
 * `multipleOf` for the numbers as they are written: 1.15 is a multiple of 0.01. Ajv divides and ignores a
 * small deviation from an integer. When one of the two numbers is large, a real remainder is smaller than
 * that: 5 counted as a multiple of 10,000,000,000.
 */
export function multipleOf(budget: () => CostBudget): FuncKeywordDefinition {
  return {
    keyword: 'multipleOf',
    type: 'number',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => str`must be multiple of ${schemaCode}` },
    compile: (divisor: number) => {
      const { digits, exponent } = decimalOf(divisor)
      const scale = 10 ** Math.max(0, -exponent)
      const scaled = Number(digits) * 10 ** Math.max(0, exponent)
      const isShort = -exponent <= MAX_DECIMALS && scaled <= MAX_EXACT
      return (value: number) => {
        const whole = Math.round(value * scale)
        if (isShort && Math.abs(whole) <= MAX_EXACT) {
          // A value with more decimals than the divisor is no multiple of it.
          return whole / scale === value && whole % scaled === 0
        }
        budget().take(LONG_WAY)
        return divides({ digits, exponent }, decimalOf(value))
      }
    },
  }
}

/** `digits` × 10 ** `exponent` */
interface Decimal {
  digits: bigint
  exponent: number
}

function decimalOf(value: number): Decimal {
  const [coefficient = '', exponent] = value.toExponential().split('e')
  const [whole, fraction = ''] = coefficient.split('.')
  return { digits: BigInt(`${whole}${fraction}`), exponent: Number(exponent) - fraction.length }
}

function divides(divisor: Decimal, value: Decimal): boolean {
  const exponent = Math.min(divisor.exponent, value.exponent)
  return raised(value, exponent) % raised(divisor, exponent) === 0n
}

function raised({ digits, exponent }: Decimal, to: number): bigint {
  return digits * 10n ** BigInt(exponent - to)
}
