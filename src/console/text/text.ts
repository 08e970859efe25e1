/** The texts in the language of this browser, or in the one that was chosen. */
import { DE } from './de.ts'
import { EN } from './en.ts'

/** By their names in themselves. */
export const LANGUAGES = { en: 'English', de: 'Deutsch' } as const
export type Language = keyof typeof LANGUAGES

const PLACE = 'ojs-language'

function isLanguage(text: string | null | undefined): text is Language {
  return text !== null && text !== undefined && Object.hasOwn(LANGUAGES, text)
}

function languageOf(): Language {
  const stored = stores()?.getItem(PLACE)
  if (isLanguage(stored)) return stored
  const wanted = navigator.languages.map((each) => each.split('-')[0])
  return wanted.find(isLanguage) ?? 'en'
}

/** From the next load of the page on. */
export function chooseLanguage(language: Language): void {
  stores()?.setItem(PLACE, language)
}

/** A browser may forbid it. */
function stores(): Storage | undefined {
  try {
    return window.localStorage
  } catch {
    return undefined
  }
}

export const LANGUAGE: Language = languageOf()

export const t: typeof EN = LANGUAGE === 'de' ? DE : EN
