import { useEffect, useRef } from 'preact/hooks'
import type { StreamPreview } from '../../../api/stream-shapes.ts'
import { usePoll } from '../calls/use-poll.ts'
import { displayText, formatCount, formatSeconds } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'
import { Curve } from '../plots/curve.ts'
import { Waveform } from '../plots/waveform.ts'
import { Empty, ErrorNote, State } from './notes.ts'

const everyMs = 1_000

/** The last messages of a request: the waveform, and the curves of the blend shapes that change most. */
export function StreamPreviewCard({ streamKey }: { readonly streamKey: string }) {
  const { answer, problem } = usePoll<StreamPreview>('/streams/preview', { key: streamKey }, everyMs)
  const title = useRef<HTMLHeadingElement>(null)
  useEffect(() => title.current?.focus(), [])
  const name = answer ? displayText(`${answer.streamId} / ${answer.requestId}`) : 'of a request'
  return html`<section class="card" aria-labelledby="preview">
    <div class="heading">
      <h2 id="preview" ref=${title} tabindex="-1">Preview ${name}</h2>
      ${answer?.ended === true && html`<${State} tone="quiet">ended<//>`}
      ${answer?.ended === false && html`<${State} tone="good">running<//>`}
      <a href=${linkTo('streams')}>Close the preview</a>
    </div>
    <${ErrorNote} error=${problem} />
    ${answer?.preview && html`<${LastMessages} preview=${answer.preview} />`}
    ${answer?.preview === null && html`<${Empty}>The broker has no messages of this request any more.<//>`}
    ${answer === undefined && problem === undefined && html`<${Empty}>Loading …<//>`}
  </section>`
}

type Preview = NonNullable<StreamPreview['preview']>

function LastMessages({ preview }: { readonly preview: Preview }) {
  const { seconds, messages, audio, blendShapes, times } = preview
  const span = seconds && `from ${formatSeconds(seconds.from)} to ${formatSeconds(seconds.to)}`
  const format = audio && `${formatCount(audio.samplesPerSecond)} Hz, ${formatChannels(audio.channelCount)}`
  return html`
    <p class="fine">The last ${formatCount(messages)} messages${span && `, ${span}`}.</p>
    <h3>Audio <span class="unit">${format}</span></h3>
    ${
      audio
        ? html`<${Waveform} envelope=${audio.envelope} />`
        : html`<${Empty}>No audio in PCM of 8, 16 or 32 bits.<//>`
    }
    <h3>Blend shapes <span class="unit">those that change most</span></h3>
    ${
      blendShapes.length === 0
        ? html`<${Empty}>No blend shape changes.<//>`
        : html`<${Curves} ...${{ blendShapes, times }} />`
    }
  `
}

const formatChannels = (count: number) => (count === 1 ? '1 channel' : `${formatCount(count)} channels`)

/** Draws all curves with the same vertical range, which includes 0 to 1. */
function Curves({ blendShapes, times }: Pick<Preview, 'blendShapes' | 'times'>) {
  const all = blendShapes.flatMap(({ values }) => values)
  const range = [Math.min(0, ...all), Math.max(1, ...all)] as const
  return html`<ul class="curves">
    ${blendShapes.map(
      ({ name, values }, index) => html`<li key=${index}>
        <span class="curve-name">${displayText(name)}</span>
        <span class="fine">${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)}</span>
        <${Curve} ...${{ values, times, range }} />
      </li>`,
    )}
  </ul>`
}
