/** JSON that a person has typed. */
import { t } from '../text/text.ts'

/**
 * Throws an error with the text `notJson` for what is no JSON, and one for a number that JavaScript would change: the
 * gateway would be sent another one, and could not refuse it.
 */
export function typedJson(text: string, notJson: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Error(notJson)
  }
  const changed = numbersIn(text).find(
    (number) => nameOf(String(Number(number))) !== nameOf(number),
  )
  if (changed !== undefined) throw new Error(t.inexact(changed))
  return value
}

function numbersIn(text: string): string[] {
  const strings = /"(?:[^"\\]|\\.)*"/g
  return text.replace(strings, '""').match(/-?\d[-+.\deE]*/g) ?? []
}

/** The same text for each way to write a number: its digits, and the power of ten behind them. */
function nameOf(number: string): string {
  const [mantissa = '', power = '0'] = number.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  const bare = digits.replace(/0+$/, '')
  if (bare === '') return '0'
  const exponent = Number(power) - fraction.length + digits.length - bare.length
  return `${number.startsWith('-') ? '-' : ''}${bare}e${exponent}`
}
