/** Sizes are relative to the browser's font size. Below 48rem, the summary is above the form. */
export const styles = `
:root {
  color-scheme: light dark;
  --ground: #eef1f5; --sheet: #fff; --tint: #f6f8fb; --line: #dde3ea; --edge: #7c8795;
  --ink: #16202c; --soft: #566372; --accent: #1f4fd8; --accent-ink: #fff; --accent-strong: #173fb0;
  --bad: #b3261e; --bad-tint: #fdf0ef; --good: #1a7f4b; --test: #fff3d6; --test-ink: #6b4700;
  --shadow: 0 1px 2px rgb(20 30 50 / 6%), 0 12px 40px rgb(20 30 50 / 9%);
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d1117; --sheet: #161c25; --tint: #1a222d; --line: #2a3442; --edge: #7d8a9a;
    --ink: #e9eef5; --soft: #a3b0bf; --accent: #8fb1ff; --accent-ink: #0b1a3d; --accent-strong: #b3caff;
    --bad: #ff9d94; --bad-tint: #2d1b1c; --good: #4fc98a; --test: #3a2c0a; --test-ink: #ffdf9a;
    --shadow: 0 1px 2px rgb(0 0 0 / 40%), 0 12px 40px rgb(0 0 0 / 35%);
  }
}
*, *::before, *::after { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; min-height: 100vh; min-height: 100svh; display: flex; flex-direction: column;
  background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
h1, p, dl, dd, ul, form { margin: 0; padding: 0; }
ul { list-style: none; }
[hidden] { display: none !important; }
.visually-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }

.test-mode {
  padding: .5rem 1rem; text-align: center; font-size: .875rem;
  background: var(--test); color: var(--test-ink);
}
main {
  flex: 1; display: grid; place-content: center; grid-template-columns: minmax(0, auto); padding: 1rem;
}
footer { padding: 0 1rem 1.5rem; font-size: .875rem; color: var(--soft); }
footer ul { display: flex; justify-content: center; gap: .25rem; }
footer a, footer span { display: block; padding: .375rem .75rem; border-radius: 99px; }
footer [aria-current] { background: var(--line); color: var(--ink); }

.sheet {
  width: 26rem; max-width: 100%; margin-inline: auto; overflow: hidden;
  background: var(--sheet); border: 1px solid var(--line); border-radius: 1.125rem;
  box-shadow: var(--shadow);
}
.summary, .details { padding: 1.5rem; overflow-wrap: anywhere; }
.summary { background: var(--tint); border-bottom: 1px solid var(--line); }
.pay-to { font-size: .875rem; color: var(--soft); }
.shop { font-size: 1.125rem; font-weight: 600; line-height: 1.35; }
.host { font-size: .875rem; color: var(--soft); }
.amount {
  margin-top: 1rem; font-size: 2.25rem; font-weight: 650; line-height: 1.15; letter-spacing: -.02em;
  font-variant-numeric: tabular-nums;
}
.amount.long { font-size: 1.5rem; }
.text { margin-top: .75rem; }
.reference { margin-top: .75rem; font-size: .875rem; color: var(--soft); }
.reference span::after { content: ":"; }
h1 { font-size: 1.1875rem; line-height: 1.35; font-weight: 650; }

form { margin-top: 1.25rem; }
.field { margin-bottom: 1.125rem; min-width: 0; }
.side-by-side { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
label { display: block; margin-bottom: .375rem; font-size: .9375rem; font-weight: 550; }
input, select {
  width: 100%; height: 3rem; padding: 0 .875rem; border: 1px solid var(--edge); border-radius: .625rem;
  background: var(--sheet); color: inherit; font: inherit; font-size: 1.0625rem;
  font-variant-numeric: tabular-nums;
}
input::placeholder { color: var(--soft); opacity: 1; }
input:hover, select:hover { border-color: var(--ink); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
input:focus, select:focus {
  border-color: var(--accent); outline: 3px solid var(--accent); outline-offset: -1px;
}
[aria-invalid="true"] { border-color: var(--bad); background: var(--bad-tint); }
.hint { margin-top: .375rem; font-size: .875rem; color: var(--soft); }
.error, .form-message { color: var(--bad); font-size: .875rem; font-weight: 550; }
.error { margin-top: .25rem; }
.error:empty { margin: 0; }
.form-message:not(:empty) {
  margin-bottom: 1.125rem; padding: .625rem .875rem; border-radius: .625rem; background: var(--bad-tint);
}
.with-scheme { position: relative; }
.with-scheme input { padding-right: 5.75rem; }
.schemes {
  position: absolute; inset: 0 .625rem 0 auto; display: flex; align-items: center; gap: .25rem;
  pointer-events: none;
}
.schemes svg { width: 2.25rem; height: 1.4375rem; }
.schemes text {
  fill: #fff; font: italic 800 11px Arial, sans-serif; text-anchor: middle; letter-spacing: .3px;
}
.visa rect { fill: #1a3a8f; }
.mastercard rect { fill: #2b3038; }
.mastercard circle { fill: #eb1c26; }
.mastercard circle + circle { fill: #f7a01d; fill-opacity: .88; }
[data-scheme="visa"] .mastercard, [data-scheme="mastercard"] .visa { display: none; }
.with-scheme:has([data-scheme="visa"], [data-scheme="mastercard"]) input { padding-right: 3.25rem; }
.field:has([aria-invalid="true"]) .hint { display: none; }

button, a.primary, a.secondary {
  display: flex; align-items: center; justify-content: center; width: 100%; min-height: 3.25rem;
  padding: .5rem 1rem; border: 1px solid transparent; border-radius: .75rem; font: inherit;
  font-weight: 600;
  font-size: 1.0625rem; text-align: center; text-decoration: none; cursor: pointer;
}
.primary { background: var(--accent); color: var(--accent-ink); }
.primary:hover { background: var(--accent-strong); }
.secondary { margin-top: .75rem; background: transparent; border-color: var(--edge); color: inherit; }
.secondary:hover { border-color: var(--ink); background: var(--tint); }
button[aria-disabled="true"] {
  cursor: progress; background: var(--accent-strong); color: var(--accent-ink);
}
a, button.link { color: var(--accent); text-underline-offset: .15em; }
a.primary { color: var(--accent-ink); }
a.secondary { color: inherit; }
button.link {
  display: inline; width: auto; min-height: 0; padding: .25rem; background: none; font-size: inherit;
  font-weight: 500;
  text-decoration: underline;
}
.note { margin-top: 1rem; font-size: .875rem; color: var(--soft); }
details { margin-top: 1rem; font-size: .875rem; color: var(--soft); text-align: start; }
summary { cursor: pointer; padding: .25rem 0; border-radius: .25rem; }
details li { padding: .25rem 0; }
code { color: var(--ink); font: .9375em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
.test-cards code { display: inline-block; margin-right: .375rem; white-space: nowrap; }

#amount { font-size: 1.375rem; font-weight: 600; }
.with-currency { display: flex; align-items: center; gap: .875rem; }
.with-currency span { white-space: nowrap; font-weight: 600; font-size: 1.125rem; }

.outcome { text-align: center; padding-block: 2rem; }
.outcome h1 { font-size: 1.375rem; }
.outcome .primary, .outcome .secondary { margin-top: 1.5rem; }
.explanation { margin-top: .625rem; color: var(--soft); }
.declined .explanation { color: var(--ink); }
.sign { display: block; width: 3.5rem; height: 3.5rem; margin: 0 auto 1rem; }
.sign path {
  fill: none; stroke: var(--sheet); stroke-width: 4; stroke-linecap: round; stroke-linejoin: round;
}
.good circle { fill: var(--good); }
.bad circle { fill: var(--bad); }
dl { margin-top: 1.25rem; border-top: 1px solid var(--line); text-align: start; font-size: .9375rem; }
dl div {
  display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; padding: .625rem 0;
  border-bottom: 1px solid var(--line);
}
dt { color: var(--soft); }
dd { font-weight: 550; text-align: end; margin-left: auto; }
.id {
  font-weight: 400; font-size: .8125rem;
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace;
}
.bank-name {
  display: flex; align-items: center; gap: .5rem; margin-bottom: .75rem; font-weight: 600;
  color: var(--soft);
}
.bank-icon { width: 1.5rem; height: 1.5rem; fill: currentColor; }

@media (min-width: 48rem) {
  main { padding: 2.5rem 1.5rem; }
  .summary, .details { padding: 2.25rem; }
  .sheet.with-summary { width: 52rem; display: grid; grid-template-columns: 5fr 6fr; }
  .with-summary .summary { border-bottom: 0; border-right: 1px solid var(--line); }
  .with-summary .details.declined { align-self: center; }
}
@media (max-width: 22rem) {
  main { padding: .5rem; }
  .summary, .details { padding: 1.125rem; }
  .side-by-side { gap: .75rem; }
  .amount { font-size: 1.875rem; }
  .amount.long { font-size: 1.25rem; }
}
@media (forced-colors: active) {
  .sign circle { fill: CanvasText; }
  button, .primary { border-color: ButtonText; }
}
@media print {
  body { background: none; }
  .sheet { box-shadow: none; }
  footer, form, button, a.primary { display: none; }
}
`

export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect y="5" width="32" height="22" rx="4" fill="#1f4fd8"/>
<path fill="#fff" fill-opacity=".9" d="M0 10h32v5H0z"/><path fill="#fff" d="M4 20h8v3H4z"/></svg>`
