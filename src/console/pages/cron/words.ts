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
  return (expression) => words(expression, options)
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
