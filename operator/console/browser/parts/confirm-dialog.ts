import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { html } from '../data/html.ts'

interface ConfirmDialogProps {
  readonly title: string
  readonly action: string
  readonly onConfirm: () => void
  readonly onCancel: () => void
  readonly children?: ComponentChildren
}

/**
 * A dialog whose cancel button has the focus first. On close, the focus returns to the element that had it
 * before.
 */
export function ConfirmDialog({ title, action, onConfirm, onCancel, children }: ConfirmDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const before = document.activeElement
    const element = dialog.current
    element?.showModal()
    return () => {
      // Elements behind an open dialog cannot get the focus.
      element?.close()
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  // The browser sends no cancel event if two dialogs are closed after one input of the user.
  const onClose = (event: Event) => {
    if ((event.target as HTMLDialogElement).isConnected) onCancel()
  }
  return html`<dialog ref=${dialog} aria-labelledby="confirm" onClose=${onClose}>
    <h2 id="confirm">${title}</h2>
    ${children}
    <p class="buttons">
      <button type="button" onClick=${onCancel}>Cancel</button>
      <button type="button" class="primary" onClick=${onConfirm}>${action}</button>
    </p>
  </dialog>`
}
