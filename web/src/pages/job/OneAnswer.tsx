import { Outcome, type Output } from '@/pages/job/Answers'
import { flat } from '@/pages/job/facts'
import { plain } from '@/pages/job/words'
import { show } from '@/parts/numbers'

interface OneAnswerProps {
  chosen: Output
  /** All turns of its conversation that were read. */
  turns: Output[]
  onClose: () => void
}

/** One conversation, turn by turn, with what was expected and how each answer was judged. */
export function OneAnswer({ chosen, turns, onClose }: OneAnswerProps) {
  const inOrder = turns.toSorted((one, other) => one.turn - other.turn)
  return (
    <section className="one-answer" aria-label={`Answer ${chosen.sample} of run ${chosen.run + 1}`}>
      <header>
        <h3>
          Run {chosen.run + 1}, {chosen.item || `session ${chosen.session}`}
        </h3>
        <button type="button" className="button plain" onClick={onClose}>
          Close
        </button>
      </header>
      {inOrder.map((one) => (
        <Turn key={one.sample} turn={one} many={inOrder.length > 1} isChosen={one === chosen} />
      ))}
    </section>
  )
}

function Turn({ turn, many, isChosen }: { turn: Output; many: boolean; isChosen: boolean }) {
  return (
    <article className="turn">
      {many && (
        <h4>
          Turn {turn.turn + 1}
          {isChosen ? ', which was chosen' : ''}
        </h4>
      )}
      <Said who="Asked" text={turn.prompt} none="Only the answer was kept." />
      <Said
        who="Answered"
        text={turn.output}
        none={turn.error ?? (turn.outcome === 'ok' ? 'An empty answer.' : 'No answer came.')}
      />
      {turn.expected !== null && <Said who="Expected" text={turn.expected} none="Nothing." />}
      {turn.cut && <p className="quiet">A text was cut here; outputs.jsonl.gz of the run has all of it.</p>}
      <Figures turn={turn} />
    </article>
  )
}

function Said({ who, text, none }: { who: string; text: string | null; none: string }) {
  return (
    <div className={`said ${who.toLowerCase()}`}>
      <strong>{who}</strong>
      {text ? <p>{plain(text)}</p> : <p className="quiet">{none}</p>}
    </div>
  )
}

function Figures({ turn }: { turn: Output }) {
  const facts = [
    ['first token', turn.ttft_ms, 'ms'],
    ['whole answer', turn.e2e_ms, 'ms'],
    ['tokens asked', turn.input_tokens, ''],
    ['tokens answered', turn.output_tokens, ''],
  ] as const
  const known = facts.filter(([, value]) => value !== null && value !== undefined)
  return (
    <dl className="in-line">
      <div>
        <dt>outcome</dt>
        <dd>
          <Outcome outcome={turn.outcome} />
        </dd>
      </div>
      {known.map(([word, value, unit]) => (
        <Fact key={word} word={word} value={`${show(value, Number.isInteger(value) ? 0 : undefined)} ${unit}`} />
      ))}
      {Object.entries(turn.scores).map(([name, value]) => (
        <Fact key={name} word={name} value={show(value)} />
      ))}
      {flat(turn.more).map((one) => (
        <Fact key={`more ${one.path}`} word={one.path} value={one.value} />
      ))}
    </dl>
  )
}

function Fact({ word, value }: { word: string; value: string }) {
  return (
    <div>
      <dt>{word}</dt>
      <dd className="number">{value}</dd>
    </div>
  )
}
