/** Dark or light: as the system is, or as was chosen here. */

export const THEMES = ['system', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

const PLACE = 'ojs-theme'

export function chosenTheme(): Theme {
  const stored = stores()?.getItem(PLACE)
  return THEMES.find((theme) => theme === stored) ?? 'system'
}

export function chooseTheme(theme: Theme): void {
  stores()?.setItem(PLACE, theme)
  applyTheme()
}

export function applyTheme(): void {
  const theme = chosenTheme()
  if (theme === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = theme
}

/** A browser may forbid it. */
function stores(): Storage | undefined {
  try {
    return window.localStorage
  } catch {
    return undefined
  }
}
