/** A dialog with a form: what is entered, its refusal, and the buttons that save it or leave. */
import type { ReactNode } from 'react'
import { t } from '../text/text.ts'
import { Trouble } from './answer.tsx'
import { Dialog } from './dialog.tsx'
import { type Sent, UnderWay } from './under-way.tsx'

interface FormDialogProps {
  title: string
  /** Of the button that submits. */
  go: string
  /** The request that is sent: a mutation without variables. */
  saving: Sent & { mutate: () => void; error: Error | null }
  onClose: () => void
  children: ReactNode
  /** Shows an error in another way than `Trouble`. */
  refusal?: (error: Error) => ReactNode
}

export function FormDialog(props: FormDialogProps): ReactNode {
  const { title, go, saving, onClose, children, refusal } = props
  const { error } = saving
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          saving.mutate()
        }}
      >
        <div className="dialog-body">{children}</div>
        {error !== null && (refusal ? refusal(error) : <Trouble error={error} />)}
        <UnderWay of={saving} />
        <footer className="dialog-foot">
          <button type="button" onClick={onClose}>
            {t.back}
          </button>
          <button type="submit" className="primary" disabled={saving.isPending}>
            {go}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
