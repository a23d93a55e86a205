import { render } from 'preact'
import { App } from './app.ts'
import { html } from './data/html.ts'
import { followAddress } from './data/route.ts'
import { applyTheme } from './data/theme.ts'

applyTheme()
followAddress()
const place = document.getElementById('console')
// The document has a header that is shown while the modules load.
place?.replaceChildren()
if (place !== null) render(html`<${App} />`, place)
