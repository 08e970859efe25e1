import { readFileSync } from 'node:fs'

/**
 * The content of a file; `''` if it cannot be read, such as `/proc` where the system has none.
 * @param {string} file
 */
export function readText(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
