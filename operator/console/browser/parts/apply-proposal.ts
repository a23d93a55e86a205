import { useSignal } from '@preact/signals'
import type { ApplyAnswer, ApplyBody } from '../../../api/manifest-shapes.ts'
import type { RightList } from '../../../api/shapes.ts'
import { CallError, post } from '../calls/api.ts'
import { isLoggedIn } from '../calls/session.ts'
import { usePoll } from '../calls/use-poll.ts'
import { displayText } from '../data/format.ts'
import { hasRight } from '../data/has-right.ts'
import { html } from '../data/html.ts'
import { readYaml } from '../data/read-yaml.ts'
import { ConfirmDialog } from './confirm-dialog.ts'
import { ErrorNote } from './notes.ts'

/** A change that the API has checked, and that the user has not confirmed yet. */
interface CheckedChange {
  readonly body: ApplyBody
  readonly checked: ApplyAnswer
  /** The fields that other managers of the cluster have applied, as lines of the API server. */
  readonly conflicts: readonly string[]
}

/** The API keeps answers of the cluster about rights for 10 s. */
const rightsMs = 10_000

/** The button that applies a valid text; nothing for users without the right in its namespace. */
export function ApplyProposal({ text }: { readonly text: string }) {
  const read = readYaml(text)
  const resource = ('value' in read ? read.value : {}) as ProposedResource
  const namespace = resource.metadata?.namespace ?? 'default'
  const { answer: rights } = usePoll<RightList>('/rights', { namespace }, rightsMs)
  const asked = useSignal<CheckedChange | undefined>(undefined)
  const problem = useSignal<unknown>(undefined)
  const done = useSignal('')

  async function attempt(task: () => Promise<void>): Promise<void> {
    problem.value = undefined
    done.value = ''
    try {
      await task()
    } catch (error) {
      problem.value = error
    }
  }
  const check = () =>
    attempt(async () => {
      asked.value = await checkChange({ resource: { ...resource }, manifest: text })
    })
  const apply = ({ body }: CheckedChange) =>
    attempt(async () => {
      asked.value = undefined
      done.value = `${describe(await post<ApplyAnswer>('/apply', body), 'is')}.`
    })
  const cancel = () => {
    asked.value = undefined
  }

  if (!hasRight(rights, 'patch', 'ratelimitconfigs')) return null
  return html`<div>
    <p class="buttons">
      <button type="button" onClick=${check}>Apply</button>
      <span role="status" class="done">${done.value}</span>
    </p>
    <${ErrorNote} error=${problem.value} />
    ${asked.value && html`<${Confirmation} change=${asked.value} onConfirm=${apply} onCancel=${cancel} />`}
  </div>`
}

interface ProposedResource {
  readonly metadata?: { readonly namespace?: string }
}

/** Asks the API what an apply would do. */
async function checkChange(body: ApplyBody): Promise<CheckedChange> {
  const check = (checked: ApplyBody) => post<ApplyAnswer>('/apply', { ...checked, dryRun: true })
  try {
    return { body, checked: await check(body), conflicts: [] }
  } catch (error) {
    // One machine has no login: a conflict is about the file, and force does not change that.
    if (!(error instanceof CallError) || error.status !== 409 || !isLoggedIn.value) throw error
    const forced = { ...body, force: true }
    return { body: forced, checked: await check(forced), conflicts: error.message.split('\n') }
  }
}

/** Says which resource is written, and where. */
function describe({ namespace, name, created, origin }: ApplyAnswer, verb: 'is' | 'will be'): string {
  const place = origin === 'cluster' ? 'in the cluster' : `in the file ${displayText(origin)}`
  return `${displayText(`${namespace}/${name}`)} ${verb} ${created ? 'created' : 'changed'} ${place}`
}

interface ConfirmationProps {
  readonly change: CheckedChange
  readonly onConfirm: (change: CheckedChange) => void
  readonly onCancel: () => void
}

function Confirmation({ change, onConfirm, onCancel }: ConfirmationProps) {
  const { checked, conflicts } = change
  const takesOver = conflicts.length > 0
  const action = takesOver ? 'Take over and apply' : 'Apply'
  const props = { title: 'Apply the text?', action, onCancel, onConfirm: () => onConfirm(change) }
  return html`<${ConfirmDialog} ...${props}>
    <p>${describe(checked, 'will be')}.</p>
    ${
      takesOver &&
      html`<p>Another manager has applied these fields. You take them over:</p>
        <ul>${conflicts.map(line => html`<li>${displayText(line)}</li>`)}</ul>`
    }
  <//>`
}
