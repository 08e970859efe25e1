/** Removes jobs of a queue, after it has said how many. */
import { useMutation } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { call } from '../../api/client.ts'
import { askAgain } from '../../api/queries.ts'
import { number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Trouble } from '../../ui/answer.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { tell } from '../../ui/notes.ts'
import { UnderWay } from '../../ui/under-way.tsx'

const STATES = [
  'available',
  'scheduled',
  'pending',
  'retryable',
  'completed',
  'cancelled',
  'discarded',
] as const
type Purgeable = (typeof STATES)[number]

export function Purge({ name }: { name: string }): ReactNode {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <button type="button" className="danger" onClick={() => setOpen(true)}>
        {t.purge.open}
      </button>
      {isOpen && <PurgeDialog name={name} onClose={() => setOpen(false)} />}
    </>
  )
}

function PurgeDialog({ name, onClose }: { name: string; onClose: () => void }): ReactNode {
  const [states, setStates] = useState<readonly Purgeable[]>(['completed'])
  const purge = (isDry: boolean) => {
    const [first, ...others] = states
    if (first === undefined) throw new Error(t.purge.none)
    return call('DELETE /ojs/v1/admin/queues/{name}/jobs', {
      path: { name },
      body: { states: [first, ...others], ...(isDry ? { dry_run: true } : { confirm: true }) },
    })
  }
  const counting = useMutation({ mutationFn: () => purge(true) })
  const purging = useMutation({
    mutationFn: () => purge(false),
    onSuccess: (answer) => {
      if ('purged_count' in answer) tell(t.purge.done(number(answer.purged_count)))
      askAgain()
      onClose()
    },
  })
  const toggle = (state: Purgeable) => {
    counting.reset()
    setStates(states.includes(state) ? states.filter((each) => each !== state) : [...states, state])
  }
  const counted = counting.data && 'matched' in counting.data ? counting.data.matched : undefined
  return (
    <Dialog title={t.purge.title(name)} onClose={onClose}>
      <div className="dialog-body">
        <p>{t.purge.what}</p>
        <fieldset className="checks">
          <legend>{t.purge.states}</legend>
          {STATES.map((state) => (
            <label key={state}>
              <input
                type="checkbox"
                checked={states.includes(state)}
                onChange={() => toggle(state)}
              />
              {t.states[state]}
            </label>
          ))}
        </fieldset>
        {counted !== undefined && <p role="status">{t.purge.matched(number(counted))}</p>}
      </div>
      {(counting.isError || purging.isError) && <Trouble error={counting.error ?? purging.error} />}
      <UnderWay of={purging} />
      <footer className="dialog-foot">
        <button type="button" onClick={onClose}>
          {t.back}
        </button>
        {counted === undefined ? (
          <button type="button" className="primary" onClick={() => counting.mutate()}>
            {t.bulk.count}
          </button>
        ) : (
          <button
            type="button"
            className="danger"
            disabled={purging.isPending || counted === 0}
            onClick={() => purging.mutate()}
          >
            {t.purge.go(number(counted))}
          </button>
        )}
      </footer>
    </Dialog>
  )
}
