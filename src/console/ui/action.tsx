/** A button that changes something: asks first where that is wise, then says what came of it. */
import { useMutation } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { askAgain } from '../api/queries.ts'
import { t } from '../text/text.ts'
import { Trouble } from './answer.tsx'
import { Dialog } from './dialog.tsx'
import { tell } from './notes.ts'
import { UnderWay, useLate } from './under-way.tsx'

interface ActionProps {
  name: string
  /** The question; absent: done at once. */
  question?: ReactNode
  isDangerous?: boolean
  isPrimary?: boolean
  act: () => Promise<unknown>
  /** What to tell afterwards. */
  done: string
  onDone?: () => void
}

export function Action(props: ActionProps): ReactNode {
  const { name, question, isDangerous, isPrimary, done, onDone } = props
  const [isAsking, setAsking] = useState(false)
  const doing = useMutation({
    mutationFn: props.act,
    onSuccess: () => {
      setAsking(false)
      tell(done)
      askAgain()
      onDone?.()
    },
  })
  const className = isDangerous ? 'danger' : isPrimary ? 'primary' : ''
  const act = () => doing.mutate()
  // What was done at once has a dialog when there is something to say of it.
  const isLate = useLate(doing)
  const isOpen = isAsking || doing.isError || isLate
  const close = () => {
    setAsking(false)
    doing.reset()
  }
  return (
    <>
      <button
        type="button"
        className={className}
        disabled={doing.isPending}
        onClick={question === undefined ? act : () => setAsking(true)}
      >
        {name}
      </button>
      {isOpen && (
        <Dialog title={name} onClose={close}>
          <div className="dialog-body">{question}</div>
          {doing.isError && <Trouble error={doing.error} />}
          <UnderWay of={doing} />
          <footer className="dialog-foot">
            <button type="button" onClick={close}>
              {t.back}
            </button>
            <button
              type="button"
              className={isDangerous ? 'danger' : 'primary'}
              disabled={doing.isPending}
              onClick={act}
            >
              {name}
            </button>
          </footer>
        </Dialog>
      )}
    </>
  )
}
