import { type FuncKeywordDefinition, str } from 'ajv/dist/2020.js'
import type { Fuel } from './fuel.ts'

/** Up to here a double is told from its neighbours by its first 15 digits. */
const MAX_EXACT = 1e15
/** A power of ten above is no exact double. */
const MAX_DECIMALS = 15
/** As of `COST`: what the long way takes at most. */
const LONG_WAY = 400

/**
 * `multipleOf` of the numbers as they are written: 1.15 is one of 0.01. Ajv divides, and where one of the
 * two is large, what would be left is less than what it rounds away: 5 was one of 10,000,000,000.
 */
export function multipleOf(fuel: () => Fuel): FuncKeywordDefinition {
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
          // What has more decimals than the divisor is no multiple of it.
          return whole / scale === value && whole % scaled === 0
        }
        fuel().take(LONG_WAY)
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
