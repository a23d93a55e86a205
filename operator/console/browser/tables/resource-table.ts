import type { ResourceList } from '../../../api/shapes.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { ConditionList, ReadyState } from '../parts/conditions.ts'
import { Empty } from '../parts/notes.ts'

export interface ResourceTableProps {
  readonly resources: ResourceList['items']
  readonly isKnown: boolean
}

/** The resources of all kinds with their conditions. */
export function ResourceTable({ resources, isKnown }: ResourceTableProps) {
  if (!isKnown) return null
  if (resources.length === 0) return html`<${Empty}>There are no resources.<//>`
  return html`<div class="scroll" role="region" aria-label="Resources" tabindex="0">
    <table>
      <caption>Resources</caption>
      <thead>
        <tr>
          <th scope="col">Resource</th>
          <th scope="col">Kind</th>
          <th scope="col">State</th>
          <th scope="col">Pods</th>
          <th scope="col">Details</th>
        </tr>
      </thead>
      <tbody>
        ${resources.map(
          ({ kind, namespace, name, enforced, conditions }) => html`<tr key=${`${kind}/${namespace}/${name}`}>
            <th scope="row">${displayText(`${namespace}/${name}`)}</th>
            <td>${kind}</td>
            <td><${ReadyState} conditions=${conditions} /></td>
            <td>${enforced || '–'}</td>
            <td><${ConditionList} conditions=${conditions} /></td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}
