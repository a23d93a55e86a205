import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'

export function EditLink({ namespace, name }: { readonly namespace: string; readonly name: string }) {
  return html`<a href=${linkTo('what-if', { namespace, name })}>
    Edit${' '}<span class="hidden">${displayText(`${namespace}/${name}`)}${' '}</span>in What-if
  </a>`
}
