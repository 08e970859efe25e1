/** A modal dialog: the browser's own, which keeps the focus and closes with Escape. */
import { type ReactNode, useEffect, useId, useRef } from 'react'
import { t } from '../text/text.ts'

interface DialogProps {
  title: string
  onClose: () => void
  children: ReactNode
  className?: string
}

/** Open as long as it is rendered. */
export function Dialog({ title, onClose, children, className = '' }: DialogProps): ReactNode {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const dialog = ref.current
    if (dialog && !dialog.open) dialog.showModal()
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      ref={ref}
      className={`dialog ${className}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
    >
      <header className="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" className="quiet small" aria-label={t.close} onClick={onClose}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  )
}
