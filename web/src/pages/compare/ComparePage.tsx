import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { compareQuery } from '@/api/queries/compare'
import { type Choices, useChoices } from '@/app/choices'
import { AnswersTable } from '@/pages/compare/AnswersTable'
import { HeatMapChart } from '@/pages/compare/HeatMapChart'
import { type Comparison, MOST_SIDES, partsOf, titled } from '@/pages/compare/records'
import { SidePicker } from '@/pages/compare/SidePicker'
import { Sides } from '@/pages/compare/Sides'
import { Suggestions } from '@/pages/compare/Suggestions'
import { NotComparable, Notes, Summary, Undecided } from '@/pages/compare/Summary'
import { TradeOff } from '@/pages/compare/TradeOff'
import { Asked } from '@/parts/Asked'
import { Empty } from '@/parts/Empty'
import { Page } from '@/parts/Page'
import { Tabs } from '@/parts/Tabs'
import './compare.css'

export default function ComparePage() {
  const choices = useChoices()
  const [isPicking, setPicking] = useState(false)
  const sides = choices
    .many('side')
    .filter((one) => partsOf(one) !== null)
    .slice(0, MOST_SIDES)
  const query = useQuery(
    compareQuery({
      sides,
      metric: choices.text('metric'),
      benchmark: choices.text('benchmark'),
      anyway: choices.text('anyway') === 'yes',
    }),
  )
  const change = (next: string[]) => choices.choose({ side: next })
  return (
    <Page
      title="Compare"
      lead="Better, worse, or cannot tell? Each side is compared with the first one, the base, by the spread between runs."
      actions={
        <button type="button" className="button primary" onClick={() => setPicking(true)}>
          Choose sides
        </button>
      }
    >
      <SidePicker open={isPicking} sides={sides} onChange={change} onClose={() => setPicking(false)} />
      {sides.length > 0 && <Sides sides={sides} known={query.data?.sides ?? []} onChange={change} />}
      {sides.length === 0 && <Suggestions onChoose={change} />}
      {sides.length === 1 && (
        <Empty title="One more side is needed.">
          <button type="button" className="button" onClick={() => setPicking(true)}>
            Choose sides
          </button>
        </Empty>
      )}
      {sides.length >= 2 && (
        <Asked query={query} what="the comparison">
          {(found) => <Found found={found} choices={choices} />}
        </Asked>
      )}
    </Page>
  )
}

function Found({ found: comparison, choices }: { found: Comparison; choices: Choices }) {
  const found = useMemo(() => ({ ...comparison, sides: titled(comparison.sides) }), [comparison])
  return (
    <>
      <Summary found={found} />
      <NotComparable reasons={found.not_comparable} choices={choices} />
      <Notes found={found} />
      {found.rows.length === 0 ? (
        <Empty title="These sides have no job and metric in common.">
          <p>Only jobs of the same definition, or of the same point of the matrix, are compared.</p>
        </Empty>
      ) : (
        <Tabs
          label="Views"
          shown={choices.word('view', ['answers', 'map', 'front'])}
          onShow={(view) => choices.choose({ view: view === 'answers' ? undefined : view })}
          tabs={[
            {
              key: 'answers',
              name: 'Answers',
              content: (
                <>
                  <AnswersTable found={found} choices={choices} />
                  <Undecided found={found} />
                </>
              ),
            },
            { key: 'map', name: 'Heat map', content: <HeatMapChart found={found} choices={choices} /> },
            {
              key: 'front',
              name: 'Trade-off',
              content: <TradeOff sides={found.sides} metrics={found.metrics} choices={choices} />,
            },
          ]}
        />
      )}
    </>
  )
}
