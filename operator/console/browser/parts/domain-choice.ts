import { html } from '../data/html.ts'
import { linkTo, route } from '../data/route.ts'
import { Choice } from './choice.ts'

/** The choice of the domain that the present page shows. */
export function DomainChoice({
  names,
  chosen,
}: {
  readonly names: readonly string[]
  readonly chosen: string
}) {
  const choose = (domain: string) => {
    location.hash = linkTo(route.value.page, { domain })
  }
  const options = names.map(value => ({ value }))
  return html`<${Choice} id="domain" label="Domain" ...${{ options, chosen }} onChoose=${choose} />`
}
