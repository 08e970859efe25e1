/** Finds numbers that JavaScript would change, in the bytes of a JSON text. */

const PLUS = 0x2b
const MINUS = 0x2d
const POINT = 0x2e
export const ZERO = 0x30
export const NINE = 0x39
/** `E` | 0x20 = `e`. */
const EXPONENT = 0x65

const SHORTEST_OVERFLOW = '1e309'.length
const SAFE_DIGITS = 15
/** Every double has a name of this many digits, and clients print one of those. */
const DIGITS_OF_DOUBLE = 17
/** The most that `toPrecision` writes. */
const MAX_DIGITS = 100
/** A fraction of this length cannot overflow or underflow. */
const SAFE_FRACTION = 308

const FRACTION = 1
const POWER = 2

/**
 * The offset after the number that starts at `from`: signs, digits, points and exponents in any order. It is
 * negative for a number that JavaScript would change (OJS core):
 * - an integer that it would write with other digits;
 * - one that becomes Infinity, which `JSON.stringify` writes as null, or 0 although it is not;
 * - a fraction, or a number with an exponent, that has more digits than a double needs, unless those are the
 *   digits of the double itself, as some clients print them (0.1 is 0.10000000000000000555).
 *
 * Any other fraction or number with an exponent means a double. `JSON.stringify` writes many of those as
 * integers: 1e18 becomes 1000000000000000000, which is exact.
 */
export function numberEnd(bytes: Buffer, from: number): number {
  let form = 0
  let to = from + 1
  for (; ; to++) {
    const byte = bytes[to] ?? 0
    if (byte >= ZERO && byte <= NINE) continue
    if (byte === POINT) form |= FRACTION
    else if ((byte | 0x20) === EXPONENT) form |= POWER
    else if (byte !== MINUS && byte !== PLUS) break
  }
  const length = to - from
  if (length < SHORTEST_OVERFLOW) return to
  const isExact =
    form === 0
      ? length <= SAFE_DIGITS || isRoundTrip(bytes, from, to)
      : (form === FRACTION && isShort(bytes, from, length)) ||
        isDouble(bytes, from, to, form >= POWER || length > SAFE_FRACTION)
  return isExact ? to : -to
}

function isRoundTrip(bytes: Buffer, from: number, to: number): boolean {
  return String(numberAt(bytes, from, to)) === bytes.toString('latin1', from, to)
}

/** Whether a fraction has no more digits than a double needs, as nearly every fraction. */
function isShort(bytes: Buffer, from: number, length: number): boolean {
  const sign = bytes[from] === MINUS ? 1 : 0
  const zero = bytes[from + sign] === ZERO ? 1 : 0
  return length - sign - zero - '.'.length <= DIGITS_OF_DOUBLE
}

/** `isExtreme`: the number may be too large or too small for a double. */
function isDouble(bytes: Buffer, from: number, to: number, isExtreme: boolean): boolean {
  const count = countDigits(bytes, from, to)
  if (count <= DIGITS_OF_DOUBLE && !isExtreme) return true
  const value = numberAt(bytes, from, to)
  if (!Number.isFinite(value)) return false
  if (value === 0) return count === 0
  if (count <= DIGITS_OF_DOUBLE) return true
  return count <= MAX_DIGITS && hasDigits(value.toPrecision(count), bytes, from, to)
}

/** Whether both texts have the same significant digits. */
function hasDigits(text: string, bytes: Buffer, from: number, to: number): boolean {
  return digitsOf(text) === digitsOf(bytes.toString('latin1', from, to))
}

function digitsOf(number: string): string {
  const [mantissa = ''] = number.toLowerCase().split('e', 1)
  return mantissa.replace(/[^0-9]/g, '').replace(/^0+|0+$/g, '')
}

/** The number of significant digits: without the zeros before the first and after the last other digit. */
function countDigits(bytes: Buffer, from: number, to: number): number {
  let count = 0
  let zeros = 0
  for (let i = from; i < to; i++) {
    const byte = bytes[i] ?? 0
    if ((byte | 0x20) === EXPONENT) break
    if (byte === ZERO) {
      if (count > 0) zeros++
    } else if (byte > ZERO && byte <= NINE) {
      count += zeros + 1
      zeros = 0
    }
  }
  return count
}

function numberAt(bytes: Buffer, from: number, to: number): number {
  return Number(bytes.toString('latin1', from, to))
}
