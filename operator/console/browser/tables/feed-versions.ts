import type { ResourceList } from '../../../api/shapes.ts'
import { html } from '../data/html.ts'
import { State } from '../parts/notes.ts'

type Feed = ResourceList['feeds'][number]

/** The pods by the version of the feed that they enforce. */
export function FeedVersions({ feeds }: { readonly feeds: readonly Feed[] }) {
  const rows = feeds.flatMap(feed => feed.versions.map(version => ({ feed, ...version })))
  if (rows.length === 0) return null
  return html`<div class="scroll" role="region" aria-label="Pods by version" tabindex="0">
    <table>
      <caption>Pods by version</caption>
      <thead>
        <tr>
          <th scope="col">Kind</th>
          <th scope="col">Version</th>
          <th scope="col" class="number">Pods</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ({ feed, version, pods }) => html`<tr key=${`${feed.kind} ${version}`}>
            <th scope="row">${feed.kind}</th>
            <td>
              <code>${version.slice(0, 12) || 'none'}</code>${' '}
              ${
                version === feed.version
                  ? html`<${State} tone="good">published<//>`
                  : html`<${State} tone="warning">behind<//>`
              }
            </td>
            <td class="number">${pods}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}
