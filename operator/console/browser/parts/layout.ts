import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { VersionAnswer } from '../../../api/shapes.ts'
import { isLoggedIn, lastAnswerMs, logOut, namespace, outage } from '../calls/session.ts'
import { usePoll } from '../calls/use-poll.ts'
import { formatTime } from '../data/format.ts'
import { fieldValue, html } from '../data/html.ts'
import { linkTo, route } from '../data/route.ts'
import { switchTheme, theme } from '../data/theme.ts'

export interface NavItem {
  readonly page: string
  readonly title: string
}

interface LayoutProps {
  readonly items: readonly NavItem[]
  readonly title: string
  readonly children?: ComponentChildren
}

export function Layout({ items, title, children }: LayoutProps) {
  const main = useRef<HTMLElement>(null)
  const { page } = route.value
  const isFirst = useRef(true)
  useEffect(() => {
    document.title = `${title} · Tollway`
    // The focus moves to the new page, so that a screen reader reads it as after a load.
    if (!isFirst.current) main.current?.focus()
    isFirst.current = false
  }, [page, title])
  return html`
    <a class="skip" href="#main" onClick=${(event: Event) => {
      event.preventDefault()
      main.current?.focus()
    }}>Skip to the content</a>
    <header class="top">
      <a class="brand" href=${linkTo('overview')}>Tollway</a>
      ${items.length > 0 && html`<${Version} />`}
      <nav aria-label="Pages">
        <ul>
          ${items.map(
            item => html`<li>
              <a href=${linkTo(item.page)} aria-current=${item.page === page ? 'page' : undefined}>
                ${item.title}
              </a>
            </li>`,
          )}
        </ul>
      </nav>
      <div class="tools">
        ${isLoggedIn.value && html`<${NamespaceForm} />`}
        <button type="button" class="quiet" onClick=${switchTheme}>Theme: ${theme.value}</button>
        ${isLoggedIn.value && html`<button type="button" class="quiet" onClick=${logOut}>Log out</button>`}
      </div>
    </header>
    <${Outage} />
    <main id="main" ref=${main} tabindex="-1" aria-labelledby="title">
      <h1 id="title">${title}</h1>
      ${children}
    </main>
  `
}

/** The version changes only when another operator answers. */
const versionMs = 60_000

function Version() {
  const { answer } = usePoll<VersionAnswer>('/version', {}, versionMs)
  return html`<span class="version">${answer?.version}</span>`
}

/** A namespace applies on Enter, and when the field loses the focus. */
function NamespaceForm() {
  const change = (event: Event) => {
    namespace.value = fieldValue(event).trim()
  }
  return html`<label class="namespace">
    Namespace${' '}
    <input placeholder="all" autocomplete="off" spellcheck=${false} value=${namespace.value}
      onChange=${change} />
  </label>`
}

function Outage() {
  const since = lastAnswerMs.value === 0 ? '' : ` Its last answer was at ${formatTime(lastAnswerMs.value)}.`
  return html`<div role="status" class="outage">
    ${outage.value !== '' && html`<p>${outage.value}${since} The page reconnects automatically.</p>`}
  </div>`
}
