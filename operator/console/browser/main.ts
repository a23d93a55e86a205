import { type FunctionComponent, render } from 'preact'
import { access } from './calls/session.ts'
import { html } from './data/html.ts'
import { followAddress, route } from './data/route.ts'
import { applyTheme } from './data/theme.ts'
import { DomainPage } from './pages/domain.ts'
import { Login } from './pages/login.ts'
import { MerchantsPage } from './pages/merchants.ts'
import { Overview } from './pages/overview.ts'
import { StreamListPage } from './pages/streams.ts'
import { TapPage } from './pages/tap.ts'
import { WhatIfPage } from './pages/what-if.ts'
import { Layout, type NavItem } from './parts/layout.ts'

interface Page extends NavItem {
  readonly content: FunctionComponent
}

const pages: readonly Page[] = [
  { page: 'overview', title: 'Overview', content: Overview },
  { page: 'domain', title: 'Domain', content: DomainPage },
  { page: 'what-if', title: 'What-if', content: WhatIfPage },
  { page: 'tap', title: 'Tap', content: TapPage },
  { page: 'streams', title: 'Streams', content: StreamListPage },
  { page: 'merchants', title: 'Merchants', content: MerchantsPage },
]

function App() {
  const found = pages.find(({ page }) => page === route.value.page)
  if (access.value === 'login') return html`<${Layout} items=${[]} title="Log in"><${Login} /><//>`
  if (found === undefined)
    return html`<${Layout} items=${pages} title="Page not found"><p>Choose one of the pages above.</p><//>`
  return html`<${Layout} items=${pages} title=${found.title}><${found.content} /><//>`
}

applyTheme()
followAddress()
const root = document.getElementById('console')
// Removes the header of the HTML document, which is shown while the modules load.
root?.replaceChildren()
if (root !== null) render(html`<${App} />`, root)
