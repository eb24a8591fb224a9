"""A blocking run, its history carried into the next one."""

from agents import Agent, ItemHelpers, Runner, TResponseInputItem

agent = Agent(name="Guide", instructions="Be brief.")
first = Runner.run_sync(agent, "Where is the Alhambra?")
print(first.final_output)
history: list[TResponseInputItem] = first.to_input_list()
history.append({"role": "user", "content": "And which country is that in?"})
second = Runner.run_sync(agent, history)
print(second.final_output)
print(ItemHelpers.text_message_outputs(second.new_items))
print(second.final_output_as(str) == second.final_output)
