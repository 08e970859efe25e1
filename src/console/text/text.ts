/** The texts in the language of this browser, or in the one that was chosen. */
import { EN } from './en.ts'

export const LANGUAGE = 'en'

export const t: typeof EN = EN
