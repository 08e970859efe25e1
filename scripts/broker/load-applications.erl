%% Loads the code of RabbitMQ's applications at once. One expression, which code-loading.mjs puts on one line,
%% without the comments, which are above it only, and with the names of the applications for APPS.
%%
%% Erlang loads a module at its first call, and switches all its code tables each time, which takes some 4 ms.
%% At its start RabbitMQ calls every module (958) of all applications that it depends on, to look for boot
%% steps. Loading a whole application at a time needs only one switch per application, and each file is read
%% from its application's folder, while Erlang would look for it in 60 folders. Loading all applications with
%% one call is no faster, and takes 80 MB more.
%%
%% RabbitMQ briefly starts a second Erlang machine, which looks after its epmd, and waits for it. That one
%% must not inherit these flags: it would load everything too, which takes 2.5 s.
%%
%% Erlang loads as usual, one by one: the modules of an application that is missing or cannot be read; and
%% modules that run code when they are loaded (`on_load`), because a call that loads several refuses these.
%% Those of RabbitMQ 3.10 are named, since an application with others is prepared twice.

catch begin
  os:unsetenv("ERL_AFLAGS"),
  WithDependencies = fun
    (Self, App, Seen) when not is_map_key(App, Seen) ->
      Path = fun(Name, Type) -> filename:join([code:lib_dir(App), ebin, atom_to_list(Name) ++ Type]) end,
      case catch file:consult(Path(App, ".app")) of
        {ok, [{application, App, Keys}]} ->
          Files = [{Module, Path(Module, ".beam")} || Module <- proplists:get_value(modules, Keys, [])],
          lists:foldl(
            fun(Needed, SoFar) -> Self(Self, Needed, SoFar) end,
            Seen#{App => Files},
            proplists:get_value(applications, Keys, [])
          );
        _ -> Seen
      end;
    (_, _, Seen) -> Seen
  end,
  Add = fun(App, Seen) -> WithDependencies(WithDependencies, App, Seen) end,
  Alone = [crypto, asn1rt_nif, pubkey_os_cacerts, rabbit_feature_flags],
  Load = fun(Files) ->
    Code = [
      {Module, File, Binary}
      || {Module, File} <- Files,
        not lists:member(Module, Alone),
        not erlang:module_loaded(Module),
        {ok, Binary} <- [prim_file:read_file(File)]
    ],
    case code:prepare_loading(Code) of
      {ok, Prepared} -> code:finish_loading(Prepared);
      {error, Refused} ->
        IsFit = fun({Module, _, _}) -> not lists:keymember(Module, 1, Refused) end,
        {ok, Rest} = code:prepare_loading(lists:filter(IsFit, Code)),
        code:finish_loading(Rest)
    end
  end,
  lists:foreach(Load, maps:values(lists:foldl(Add, #{}, [APPS])))
end
