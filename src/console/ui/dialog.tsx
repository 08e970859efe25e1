/** A modal dialog: the browser's own, which keeps the focus and closes with Escape. */
import { type ReactNode, useId, useLayoutEffect, useRef } from 'react'
import { t } from '../text/text.ts'
import { Raw } from './raw.tsx'

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
  // Closed while it is still in the page: then the browser gives the focus back to where it was.
  useLayoutEffect(() => {
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
        // React passes it on from a dialog within this one.
        if (event.target !== event.currentTarget) return
        event.preventDefault()
        onClose()
      }}
    >
      <header className="dialog-head">
        <h2 id={id}>
          <Raw text={title} />
        </h2>
        <button type="button" className="quiet small" aria-label={t.close} onClick={onClose}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  )
}
