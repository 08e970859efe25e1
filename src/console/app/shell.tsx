/** Navigation, the banner of a lost connection, notes, palette and keys around every page. */
import { useMutation } from '@tanstack/react-query'
import { Link, Outlet, useLocation } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { askFailedAgain, useApi } from '../api/queries.ts'
import { useSession } from '../api/session.ts'
import { chooseLanguage, LANGUAGE, LANGUAGES, type Language, t } from '../text/text.ts'
import icon from '../ui/icon.svg'
import { tell, useNotes } from '../ui/notes.ts'
import { Raw } from '../ui/raw.tsx'
import { KeyHelp, useKeys } from './keys.tsx'
import { usePlaces } from './pages.ts'
import { Palette } from './palette.tsx'
import { signOut } from './sign-in.tsx'
import { chooseTheme, chosenTheme, THEMES, type Theme } from './theme.ts'

export function Shell(): ReactNode {
  const [open, setOpen] = useState<'palette' | 'keys' | null>(null)
  useKeys(setOpen)
  return (
    <div className="shell-grid">
      <button type="button" className="skip" onClick={toMain}>
        {t.skip}
      </button>
      <nav className="side" aria-label={t.nav.label}>
        <Brand />
        <Places />
        <div className="side-foot">
          <button type="button" className="quiet" onClick={() => setOpen('palette')}>
            {t.palette.open} <kbd>Ctrl K</kbd>
          </button>
          <ThemeChoice />
          <LanguageChoice />
          <Who />
        </div>
      </nav>
      <main id="main" tabIndex={-1}>
        <Connection />
        <Outlet />
      </main>
      <Notes />
      {open === 'palette' && <Palette onClose={() => setOpen(null)} />}
      {open === 'keys' && <KeyHelp onClose={() => setOpen(null)} />}
    </div>
  )
}

/** No link: what stands behind `#` in an address is the page. */
function toMain(): void {
  document.getElementById('main')?.focus()
}

function Brand(): ReactNode {
  return (
    <div className="brand">
      <img src={icon} alt="" width="24" height="24" />
      <span>ojs-rabbitmq</span>
    </div>
  )
}

function Places(): ReactNode {
  const places = usePlaces()
  const list = useRef<HTMLUListElement>(null)
  const { pathname } = useLocation()
  // In a narrow window the list is one line, longer than that.
  useEffect(() => {
    const links = [...(list.current?.querySelectorAll('a') ?? [])]
    const here = links.find(({ hash }) => isWithin(pathname, hash.slice(1)))
    here?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [pathname])
  return (
    <ul className="places" ref={list}>
      {places.map(({ to, name }) => (
        <li key={to}>
          <Link to={to} activeOptions={{ exact: to === '/', includeSearch: false }}>
            {name}
          </Link>
        </li>
      ))}
    </ul>
  )
}

/** One job is within the page of the jobs. */
function isWithin(pathname: string, place: string): boolean {
  return pathname === place || (place !== '/' && pathname.startsWith(`${place}/`))
}

function ThemeChoice(): ReactNode {
  const [theme, setTheme] = useState<Theme>(chosenTheme)
  return (
    <label className="theme-choice">
      <span>{t.theme.label}</span>
      <select
        value={theme}
        onChange={(event) => {
          const chosen = THEMES.find((each) => each === event.target.value) ?? 'system'
          chooseTheme(chosen)
          setTheme(chosen)
        }}
      >
        {THEMES.map((each) => (
          <option key={each} value={each}>
            {t.theme[each]}
          </option>
        ))}
      </select>
    </label>
  )
}

/** The page is loaded anew: its texts are read once. */
function LanguageChoice(): ReactNode {
  return (
    <label className="theme-choice">
      <span>{t.language.label}</span>
      <select
        value={LANGUAGE}
        onChange={(event) => {
          chooseLanguage(event.target.value as Language)
          window.location.reload()
        }}
      >
        {Object.entries(LANGUAGES).map(([each, name]) => (
          <option key={each} value={each} lang={each}>
            {name}
          </option>
        ))}
      </select>
    </label>
  )
}

function Who(): ReactNode {
  const { needs_key: needsKey, name, role } = useSession()
  const leaving = useMutation({ mutationFn: signOut, onError: () => tell(t.signIn.notOut) })
  if (!needsKey) return null
  return (
    <div className="who">
      <span>
        <Raw text={name ?? ''} /> <span className="faint">{role}</span>
      </span>
      <button type="button" className="quiet small" onClick={() => leaving.mutate()}>
        {t.signIn.out}
      </button>
    </div>
  )
}

/** Health is asked for every few seconds, so this is where a lost connection shows first. */
function Connection(): ReactNode {
  const health = useApi('GET /ojs/v1/health', {}, { every: 3_000 })
  const isLost = health.isError
  useEffect(() => {
    if (!isLost) askFailedAgain()
  }, [isLost])
  if (isLost) {
    return (
      <div className="banner bad" role="alert">
        {t.connection.lost}
      </div>
    )
  }
  if (health.data?.maintenance) {
    return (
      <div className="banner warn" role="status">
        {t.connection.maintenance}
      </div>
    )
  }
  return null
}

function Notes(): ReactNode {
  const notes = useNotes()
  return (
    <div className="notes" role="status" aria-live="polite">
      {notes.map(({ id, text }) => (
        <div key={id} className="note">
          <Raw text={text} />
        </div>
      ))}
    </div>
  )
}
