import type { PageDocument, PageElement, PageWindow } from '../views/page-elements.ts'

/** Ignores a second submission while the first one runs. A second payment is prevented by the token too. */
export function submitOnce(page: PageDocument, window: PageWindow): void {
  for (const form of page.querySelectorAll('form[data-once]')) {
    let used: { readonly button: PageElement; readonly label: string | null } | undefined
    form.addEventListener('submit', event => {
      if (event.defaultPrevented) return
      if (used !== undefined) return event.preventDefault()
      const button = event.submitter ?? form.querySelector('button')
      if (button === null) return
      used = { button, label: button.textContent }
      // A disabled button would neither be sent nor keep the focus.
      button.setAttribute('aria-disabled', 'true')
      button.textContent = form.getAttribute('data-once')
    })
    // The button works again after the payer returns to the page.
    window.addEventListener('pageshow', () => {
      if (used === undefined) return
      used.button.removeAttribute('aria-disabled')
      used.button.textContent = used.label
      used = undefined
    })
  }
}

/** Opens the shop after a delay, unless the payer chooses to stay. */
export function continueToShop(page: PageDocument, window: PageWindow): void {
  const place = page.querySelector('[data-continue]')
  const link = place?.querySelector('a') ?? null
  const notice = place?.querySelector('[data-notice]') ?? null
  const stay = place?.querySelector('button') ?? null
  if (place === null || link === null || notice === null || stay === null) return
  const delayMs = Number(place.getAttribute('data-continue'))
  const timer = window.setTimeout(() => window.location.assign(link.getAttribute('href') ?? ''), delayMs)
  notice.hidden = false
  stay.addEventListener('click', () => {
    window.clearTimeout(timer)
    notice.hidden = true
    link.focus()
  })
}

/** Reloads the form when the payer returns with the back button, for an empty form and a new token. */
export function reloadOnReturn(page: PageDocument, window: PageWindow): void {
  if (page.querySelector('form[data-card]') === null) return
  window.addEventListener('pageshow', event => {
    const [entry] = window.performance.getEntriesByType('navigation')
    if (event.persisted === true || entry?.type === 'back_forward') {
      window.location.replace(window.location.href)
    }
  })
}

/** Shows times, which the server writes in UTC, in the payer's time zone. */
export function showLocalTimes(page: PageDocument): void {
  for (const time of page.querySelectorAll('time[data-locale]')) {
    const format = new Intl.DateTimeFormat(time.getAttribute('data-locale') ?? 'en', {
      day: 'numeric',
      month: 'short',
      year: 'numeric',
      hour: '2-digit',
      minute: '2-digit',
      timeZoneName: 'short',
    })
    time.textContent = format.format(new Date(time.getAttribute('datetime') ?? ''))
  }
}
