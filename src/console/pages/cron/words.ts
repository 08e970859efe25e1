/** Cron expressions in words, in the language of the page. */
import { useQuery } from '@tanstack/react-query'
import { LANGUAGE } from '../../text/text.ts'

type Describe = (expression: string) => string

/** Loaded with the first look at a recurring job. */
async function load(): Promise<Describe> {
  const { toString: words } = (await import('cronstrue')).default
  // Registers itself there.
  if (LANGUAGE === 'de') await import('cronstrue/locales/de')
  const options = { locale: LANGUAGE, use24HourTimeFormat: true, verbose: false }
  return (expression) => (dropsZero(expression) ? '' : words(expression, options))
}

/** The library forgets the minute or second 0 in a list with steps: `0,5,7-30/3`. */
export function dropsZero(expression: string): boolean {
  const clock = fieldsOf(expression).slice(0, -4)
  return clock.some((field) => field.includes('/') && /(^|,)0+(,|$)/.test(field))
}

/** How its times are shown: with seconds only if it has a field for them. */
export function clocksOf(expression: string): { hasSeconds: boolean } {
  return { hasSeconds: fieldsOf(expression).length === 6 }
}

function fieldsOf(expression: string): string[] {
  return expression.trim().split(/\s+/)
}

/** Empty where there are no words for it: not all that the gateway understands has some. */
export function useWords(): Describe {
  const { data: describe } = useQuery({
    queryKey: ['cron-words', LANGUAGE],
    queryFn: load,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (expression) => {
    try {
      return describe?.(expression) ?? ''
    } catch {
      return ''
    }
  }
}
