/** Asks for the format, then shows how far the file is, and hands it to the browser. */
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { useSession } from '../../../api/session.ts'
import type { Filters } from '../../../search/query.ts'
import { number } from '../../../text/format.ts'
import { t } from '../../../text/text.ts'
import { Trouble } from '../../../ui/answer.tsx'
import { Dialog } from '../../../ui/dialog.tsx'
import { FORMATS, type Format, JobExport } from './job-export.ts'

interface ExportDialogProps {
  ids: readonly string[]
  filters: Filters
  onClose: () => void
}

export function ExportDialog({ ids, filters, onClose }: ExportDialogProps): ReactNode {
  const [format, setFormat] = useState<Format>('jsonl')
  const mayRead = useSession().role !== 'reader'
  const [isWithPayload, setWithPayload] = useState(mayRead)
  const { current, isRunning, error, start, stop } = useExport()
  const begin = () => start(new JobExport({ format, ids, filters, isWithPayload }))
  return (
    <Dialog title={t.export.title} onClose={onClose}>
      <div className="dialog-body">
        {current === undefined ? (
          <>
            <p>{t.export.what}</p>
            <fieldset className="checks">
              <legend className="hidden">{t.export.format}</legend>
              {FORMATS.map((each) => (
                <label key={each}>
                  <input
                    type="radio"
                    name="format"
                    checked={format === each}
                    onChange={() => setFormat(each)}
                  />
                  {t.export.formats[each]}
                </label>
              ))}
            </fieldset>
            {mayRead && (
              <label className="check">
                <input
                  type="checkbox"
                  checked={isWithPayload}
                  onChange={() => setWithPayload(!isWithPayload)}
                />
                {t.export.payload}
              </label>
            )}
          </>
        ) : (
          <Progress of={current} />
        )}
      </div>
      {error !== undefined && <Trouble error={error} />}
      <footer className="dialog-foot">
        <button type="button" onClick={onClose}>
          {t.close}
        </button>
        {current === undefined && (
          <button type="button" className="primary" onClick={begin}>
            {t.export.go}
          </button>
        )}
        {isRunning && (
          <button type="button" onClick={stop}>
            {t.export.stop}
          </button>
        )}
        {current !== undefined && !isRunning && !current.isDone && (
          <button type="button" onClick={() => start(current)}>
            {t.export.goOn}
          </button>
        )}
        {current !== undefined && !isRunning && (
          <button
            type="button"
            className="primary"
            onClick={() => save(current.file, `jobs.${format}`)}
          >
            {t.export.save}
          </button>
        )}
      </footer>
    </Dialog>
  )
}

function Progress({ of: { count, total, isDone } }: { of: JobExport }): ReactNode {
  const end = isDone || total === undefined ? count : Math.max(count, total.count)
  return (
    <>
      <progress
        aria-label={t.bulk.progress}
        max={Math.max(1, end)}
        {...((isDone || total?.isMore !== true) && { value: isDone ? Math.max(1, end) : count })}
      />
      <p role="status">
        {isDone
          ? t.export.done(number(count))
          : t.export.running(number(count), number(end), total?.isMore === true)}
      </p>
    </>
  )
}

interface Running {
  current: JobExport | undefined
  isRunning: boolean
  error: unknown
  start: (which: JobExport) => void
  stop: () => void
}

/** Ends with the dialog. */
function useExport(): Running {
  const [current, setCurrent] = useState<JobExport>()
  const [isRunning, setRunning] = useState(false)
  const [error, setError] = useState<unknown>()
  const [, setPages] = useState(0)
  const aborting = useRef(new AbortController())
  const stop = () => aborting.current.abort()
  useEffect(() => () => aborting.current.abort(), [])
  const start = (which: JobExport) => {
    aborting.current = new AbortController()
    const { signal } = aborting.current
    setCurrent(which)
    setRunning(true)
    setError(undefined)
    which
      .run(signal, () => setPages((pages) => pages + 1))
      .catch((thrown: unknown) => {
        if (!signal.aborted) setError(thrown)
      })
      .finally(() => setRunning(false))
  }
  return { current, isRunning, error, start, stop }
}

function save(file: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
