import { detectScheme } from '../../processor/card-number.ts'
import {
  type CardField,
  type CardFieldError,
  checkCode,
  checkExpiry,
  checkNumber,
  groupExpiry,
  groupNumber,
  type Typed,
} from '../card-fields.ts'
import type { PageDocument, PageElement } from './page-elements.ts'

/**
 * Groups digits, shows the scheme and the error of a field that the payer leaves, and submits only a valid
 * form.
 */
export function enhanceCardForm(page: PageDocument, nowMs: () => number): void {
  const form = page.querySelector('form[data-card]')
  if (form === null) return
  const messages = JSON.parse(form.getAttribute('data-messages') ?? '{}')
  const isTest = form.getAttribute('data-test') === 'yes'
  const checks: Readonly<Record<CardField, (text: string) => CardFieldError | undefined>> = {
    number: text => checkNumber(text, isTest),
    expiry: text => checkExpiry(text, nowMs()),
    code: text => checkCode(text),
  }
  const fields = (Object.keys(checks) as CardField[]).flatMap(name => {
    const input = page.querySelector(`#${name}`)
    return input === null ? [] : [{ name, input, check: checks[name] }]
  })
  const scheme = page.querySelector('[data-scheme]')
  const group = { number: groupNumber, expiry: groupExpiry, code: undefined }
  const show = (input: PageElement, error: CardFieldError | undefined) =>
    showFieldError(page, input, error === undefined ? '' : messages[error])

  for (const { name, input, check } of fields) {
    input.addEventListener('input', event => {
      const format = group[name]
      if (format !== undefined) formatInPlace(input, format, event.inputType ?? 'insertText')
      if (name === 'number' && scheme !== null) {
        scheme.setAttribute('data-scheme', detectScheme(input.value.replace(/\D/g, '')) ?? '')
      }
      const error = check(input.value)
      const isKnown = input.getAttribute('aria-invalid') === 'true' || error === 'number-scheme'
      if (isKnown) show(input, error)
    })
    // An empty field shows no error before the form is sent.
    input.addEventListener('blur', () => {
      if (input.value.trim() !== '') show(input, check(input.value))
    })
  }

  form.setAttribute('novalidate', '')
  form.addEventListener('submit', event => {
    const wrong = fields.filter(({ input, check }) => {
      const error = check(input.value)
      show(input, error)
      return error !== undefined
    })
    const [first] = wrong
    const summary = page.querySelector('#form-message')
    if (summary !== null) summary.textContent = first === undefined ? '' : messages['form']
    if (first === undefined) return
    event.preventDefault()
    first.input.focus()
  })
}

/** Formats the text of a field, and keeps the caret at the same digit. */
export function formatInPlace(
  input: PageElement,
  format: (text: string, caret: number, isDeletion: boolean) => Typed,
  inputType: string,
): void {
  const typed = input.value
  const { text, caret } = format(typed, input.selectionStart ?? typed.length, inputType.startsWith('delete'))
  if (text === typed) return
  input.value = text
  input.setSelectionRange(caret, caret)
}

/** Shows the error of a field below the field, also to screen readers. An empty message removes the error. */
export function showFieldError(page: PageDocument, input: PageElement, message: string): void {
  const place = page.querySelector(`#${input.id}-error`)
  if (place !== null) place.textContent = message
  if (message === '') input.removeAttribute('aria-invalid')
  else input.setAttribute('aria-invalid', 'true')
}
