import type { DomainList } from '../../../api/shapes.ts'
import { countListed } from '../calls/use-pages.ts'
import type { Polled } from '../calls/use-poll.ts'
import { html } from '../data/html.ts'
import { linkTo, route } from '../data/route.ts'
import { Choice } from './choice.ts'
import { ErrorNote, Loading, NoDomain } from './notes.ts'

interface DomainChoiceProps {
  readonly list: DomainList | undefined
  readonly chosen: string
}

export function DomainChoice({ list, chosen }: DomainChoiceProps) {
  const choose = (domain: string) => {
    location.hash = linkTo(route.value.page, { domain })
  }
  const options = (list?.items ?? []).map(({ domain: value }) => ({ value }))
  return html`<${Choice} id="domain" label="Domain" ...${{ options, chosen }} onChoose=${choose}
    listed=${list && countListed(list)} />`
}

/** The note of a page that has no domain to show. */
export function DomainsNote({ answer, problem }: Polled<DomainList>) {
  if (problem !== undefined) return html`<${ErrorNote} error=${problem} />`
  return answer === undefined ? html`<${Loading} />` : html`<${NoDomain} />`
}
